def f(flag: bool) -> int:
    if flag:
        x = 1
    return x

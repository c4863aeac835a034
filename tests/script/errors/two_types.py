def f(flag: bool) -> int:
    if flag:
        x = 1
    else:
        x = "one"
    return x

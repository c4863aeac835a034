def f(n: int) -> int:
    x = (n +
    return x

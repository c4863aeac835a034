def helper(a: int, b: int, c: int = 3) -> int:
    return a + b + c


def f(n: int) -> int:
    return helper(n, d=4)

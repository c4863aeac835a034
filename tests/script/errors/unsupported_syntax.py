def f(n: int) -> int:
    try:
        n = n + 1
    except ValueError:
        n = 0
    return n

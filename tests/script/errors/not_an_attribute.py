class Point:
    def __init__(self, x: int):
        self.x = x


def f(n: int) -> int:
    p = Point(n)
    return p.y

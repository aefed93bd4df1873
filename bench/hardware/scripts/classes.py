import sys


class Shape:
    def __init__(self, size):
        self.size = size

    def area(self):
        return 0


class Square(Shape):
    def area(self):
        return self.size * self.size


class Circle(Shape):
    def area(self):
        return 3.14159 * self.size**2


total = 0.0
for i in range(int(sys.argv[1])):
    shape = Square(i % 7) if i % 3 else Circle(i % 5)
    total += shape.area()
print(total)

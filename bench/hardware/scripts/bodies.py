import sys

bodies = [[float(i), float(i * i % 7), float(i % 3), 0.0, 0.0, 0.0, 1.0 + i] for i in range(5)]
for _ in range(int(sys.argv[1])):
    for i, a in enumerate(bodies):
        for b in bodies[i + 1 :]:
            x, y, z = a[0] - b[0], a[1] - b[1], a[2] - b[2]
            m = 0.001 / (x * x + y * y + z * z + 0.01) ** 1.5
            a[3] -= x * b[6] * m
            a[4] -= y * b[6] * m
            a[5] -= z * b[6] * m
            b[3] += x * a[6] * m
            b[4] += y * a[6] * m
            b[5] += z * a[6] * m
    for a in bodies:
        a[0] += 0.001 * a[3]
        a[1] += 0.001 * a[4]
        a[2] += 0.001 * a[5]
print(bodies[0])

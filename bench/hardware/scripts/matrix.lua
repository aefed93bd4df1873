local n = tonumber(arg[1])
local function make(f)
  local m = {}
  for i = 1, n do
    m[i] = {}
    for j = 1, n do m[i][j] = f(i, j) end
  end
  return m
end
local a, b = make(function(i, j) return i + j / 3 end), make(function(i, j) return i - j / 7 end)
local s = 0
for i = 1, n do
  local row = a[i]
  for j = 1, n do
    local x = 0
    for k = 1, n do x = x + row[k] * b[k][j] end
    s = s + x
  end
end
print(s)

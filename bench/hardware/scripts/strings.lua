local words = {}
for i = 1, tonumber(arg[1]) do
  local w = string.format("%x", i * 2654435761 % 65536)
  words[#words + 1] = w:rep(2):upper():gsub("A", "b")
  if #words == 1000 then
    local all = table.concat(words, ",")
    local n = 0
    for part in all:gmatch("[^,]+") do n = n + #part end
    words = {tostring(n)}
  end
end
print(#table.concat(words))

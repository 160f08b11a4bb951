-- A page of the transcript, newest first, cut by count and bytes.
-- lane: none
-- keys: h t
-- args: generation, before (0: newest), limit, bytes
-- include: root
local generation, before, limit, bytes = int(), int(), int(), int()
if not exists() or num('g') ~= generation then return {'stale', now, {}, 0} end
local from = (before <= 0 or before > num('r')) and '+' or '(' .. before .. '-0'
local page, size = {}, 0
while true do
  local want = math.min(limits.chunk, limit - #page + 1)
  local chunk = call('XREVRANGE', key.t, from, '-', 'COUNT', want)
  for _, row in ipairs(chunk) do
    size = size + #row[2][4]
    if #page >= limit or (#page > 0 and size > bytes) then return {'ok', now, page, 1} end
    page[#page + 1] = row
  end
  if #chunk < want then return {'ok', now, page, 0} end
  from = '(' .. chunk[#chunk][1]
end

-- Entries after a position, which must be one of this log.
-- lane: reads
-- keys: h e
-- args: incarnation, offset, stamp, limit
local ep, o, z, limit = arg(), int(), arg(), int()
local head = call('HMGET', key.h, 'ep', 's', 'z', 'v')
local s, hz = tonumber(head[2]) or 0, head[3] or '0'
if (tonumber(head[4]) or 0) > limits.version then error('TOONEW') end
local function answer(code, log) return {code, now, s, hz, log or {}} end
if not head[1] or head[1] ~= ep or o > s or o < 0 then return answer('diverged') end
if o == s then return answer(z == hz and 'ok' or 'diverged') end
local log, size = {}, 0
local from = '(' .. o .. '-0'
while #log < limit do
  local chunk = call('XRANGE', key.e, from, '+', 'COUNT', math.min(limits.chunk, limit - #log))
  if #log == 0 then
    if not chunk[1] or chunk[1][1] ~= (o + 1) .. '-0' then return answer('behind') end
    if chunk[1][2][6] ~= z then return answer('diverged') end
  end
  if #chunk == 0 then break end
  for _, e in ipairs(chunk) do
    local fields = e[2]
    for i = 2, #fields, 2 do size = size + #fields[i] end
    if #log > 0 and size > limits.readBytes then return answer('ok', log) end
    log[#log + 1] = e
  end
  from = '(' .. chunk[#chunk][1]
end
return answer('ok', log)

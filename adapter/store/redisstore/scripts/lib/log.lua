-- The event log: stream ids are offsets, each entry names the stamp before it.
local stamp = ''
local written = 0

local function position()
  return num('s'), (root.z or '0')
end

-- entry(kind, run, name, payload, field, value, ...)
local function entry(kind, run, name, payload, ...)
  local more = {...}
  local size = 64 + #name + #payload
  for i = 2, #more, 2 do size = size + #tostring(more[i]) end
  local o, prev = position()
  local z, total = stamp .. written, num('lb') + size
  o, written = o + 1, written + 1
  local e = {'XADD', key.e, o .. '-0', 'k', kind, 'z', z, 'pz', prev, 'ts', now, 'b', total}
  if run ~= '' then e[#e + 1] = 'x'; e[#e + 1] = run end
  if name ~= '' then e[#e + 1] = 'n'; e[#e + 1] = name end
  if payload ~= '' then e[#e + 1] = 'p'; e[#e + 1] = payload end
  for i = 1, #more do e[#e + 1] = more[i] end
  writes[#writes + 1] = e
  set('s', o)
  set('z', z)
  set('lb', total)
  announced = true
end

-- notes reads events from the arguments: entries of no run.
local function notes()
  for _ = 1, int() do
    local name, payload = arg(), arg()
    entry('note', '', name, payload)
  end
end

-- Sealed transcript rows: stream ids are row ids, one id space for ever.
local function row(role, data, run, qid)
  local id = num('r') + 1
  set('r', id)
  set('msgs', num('msgs') + 1)
  if role == 'tool' then set('tools', num('tools') + 1) end
  write('XADD', key.t, id .. '-0', 'r', role, 'd', data, 'ts', now, 'x', run, 'q', qid)
  return id
end

-- rows reads rows from the arguments.
local function rows(run)
  local ids = {}
  for i = 1, int() do
    local role, data = arg(), arg()
    ids[i] = row(role, data, run, '')
  end
  return ids
end

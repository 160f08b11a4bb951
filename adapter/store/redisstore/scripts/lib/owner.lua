-- What an owner may do, and what it is answered.
local function refusal(token, run)
  if not exists() then return 'lost' end
  if token == '' or token ~= str('tok') then return 'fenced' end
  if run == '' or run ~= str('run') then return 'ended' end
end

-- reply(code, first offset, stamp, last offset, stamp, time, rows, state)
local function reply(code, bo, bz, lo, lz, at, ids, state)
  return {code, now, bo, bz, lo, lz, at, num('ab'), num('mv'), num('ql'), num('as'), state, ids}
end
local function refused(code, run)
  local rec = (code == 'fenced' or code == 'ended') and byRun(run)
  return reply(code, 0, '', 0, '', 0, {}, rec and rec.s or '')
end
-- stored answers from the result that the root keeps.
local function stored(code)
  local r = cmsgpack.unpack(str('ar'))
  return reply(code, r.bo, r.bz, r.lo, r.lz, r.at, r.ids, '')
end
local function result(bo, bz, ids)
  local lo, lz = position()
  return {bo = bo, bz = bz, lo = lo, lz = lz, at = now, ids = ids}
end

-- events reads the owner's events. Kinds of other operations count as plain.
local function events(run)
  for _ = 1, int() do
    local kind, name, payload = arg(), arg(), arg()
    if kind == 'started' then
      entry('started', run, name, payload, 'ql', num('ql'))
      closeWindow()
    else
      entry('ev', run, name, payload)
    end
  end
end
local function runRows(run)
  local ids = rows(run)
  if #ids > 0 then set('rj', num('rj') + #ids) end
  return ids
end

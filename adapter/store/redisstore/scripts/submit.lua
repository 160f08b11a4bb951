-- Accepts a user message: begins the run of an idle session, or queues it.
-- keys: h t e q i d dx k l n a z
-- args: channel, new incarnation, stamp, owner, profile, source, model, provider, title, preview,
--       qid, run, digest, executor, cid, profile, role, data, options,
--       1 to start, token, node, ttl, not after, known process
-- include: root log rows ledger queue run life
local channel, ep = arg(), arg()
stamp = arg()
local owner, profile, attrs = arg(), arg(), attributes()
local it = {
  qid = arg(), run = arg(), dig = arg(), ex = arg(), cid = arg(), pro = arg(),
  role = arg(), data = arg(), opts = arg(), acc = now,
}
local start, token, node, ttl, notAfter, process = int() == 1, arg(), arg(), int(), int(), arg()

local function answer(code, bo, bz, lo, lz, state, run, rowID)
  local orphan = code == 'queued' and not alive() and 1 or 0
  return {code, now, str('ep'), num('f'), bo, bz, lo, lz, num('ql'), orphan, state, run, rowID, num('bt')}
end
local function refuse(code, state)
  return answer(code, 0, '', 0, '', state or '', '', 0)
end

-- again answers an item that the ledger knows. What another attempt has been
-- told of is acknowledged, and cannot be withdrawn any more.
local function again(rec)
  if rec.dig ~= it.dig then return refuse('conflict', rec.s) end
  if rec.run == it.run then
    if rec.s == 'queued' then return answer('queued', rec.bo, rec.bz, rec.lo, rec.lz, rec.s, rec.run, 0) end
    if rec.st == 1 and start and str('run') == rec.run and str('tok') == token and num('as') == 0 then
      return answer('started', rec.bo, rec.bz, rec.lo, rec.lz, rec.s, rec.run, num('ur'))
    end
  end
  if rec.ack ~= 1 then
    rec.ack = 1
    call('HSET', key.d, 'q' .. it.qid, cmsgpack.pack(rec))
  end
  local o, z = position()
  return answer('repeat', o, z, o, z, rec.s, rec.run, 0)
end

if forbids(owner, profile) then return {'forbidden', now, '', 0, 0, '', 0, '', 0, 0, '', '', 0, 0} end
if exists() and str('del') == '1' then return refuse('deleting') end
if call('HEXISTS', key.d, 'w' .. it.run) == 1 then return refuse('withdrawn') end
local known = recall('q' .. it.qid)
if known then return again(known) end
if late(notAfter) then return refuse('expired') end
start = start and not busy()
if start and replaced(process) then return otherProcess() end
local bytes = size(it)
if bytes > limits.itemBytes then return refuse('full') end
if not start and (num('ql') >= limits.items or num('qb') + bytes > limits.queueBytes) then return refuse('full') end

if not exists() then create(ep, owner, profile, attrs) end
set('ut', now)
local bo, bz = position()
local rec = {s = 'queued', run = it.run, dig = it.dig, bo = bo, bz = bz}
local rowID = 0
if start then
  rec.s, rec.st = 'active', 1
  grant(token, node, ttl)
  keep(it)
  rowID = begin(it, false)
  rec.row = rowID
else
  push(it)
  queueEvent()
end
rec.lo, rec.lz = position()
enter('q' .. it.qid, rec)
commit(channel)
return answer(start and 'started' or 'queued', bo, bz, rec.lo, rec.lz, rec.s, it.run, rowID)

-- Records a run that cannot be made the active one again as failed.
-- keys: h t e q i d dx k l n a z
-- args: channel, new incarnation, stamp, owner, profile, source, model, provider, title, preview,
--       qid, run, digest, executor, cid, profile, role, data, options, accepted, rows (role, data)
-- include: root log rows ledger queue run life missing
local channel, ep = arg(), arg()
stamp = arg()
local owner, profile, attrs = arg(), arg(), attributes()
local it = arrived()
if forbids(owner, profile) then return {'forbidden', now} end
local rec = recall('q' .. it.qid)
local mine = rec and rec.run == it.run
if rec and rec.s ~= 'queued' then return {'ok', now} end
if str('del') ~= '' then return {'ok', now} end

if not exists() then create(ep, owner, profile, attrs) end
if rec then
  take(it.qid)
  forget(it.qid)
  queueEvent()
  if not mine then write('HDEL', key.d, 'r' .. rec.run) end
end
local ids = missing(it.run, it.qid, mine and rec.row)
local buried = {s = 'failed', run = it.run, dig = it.dig, row = ids[1], ack = 1}
buried.bo, buried.bz = position()
buried.lo, buried.lz = buried.bo, buried.bz
if rec then
  save('q' .. it.qid, buried)
  write('HSET', key.d, 'r' .. it.run, it.qid)
else
  enter('q' .. it.qid, buried)
end
set('ut', now)
commit(channel)
return {'ok', now}

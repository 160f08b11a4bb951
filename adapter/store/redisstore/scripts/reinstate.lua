-- Makes a run that its owner carries out the active one again, after the store has
-- lost writes.
-- keys: h t e q i d dx k l n a z
-- args: channel, new incarnation, stamp, owner, profile, source, model, provider, title, preview,
--       qid, run, digest, executor, cid, profile, role, data, options, accepted,
--       phase, executor, attempts, abort, wire id, upstream, token, fence, node, ttl,
--       last acknowledged sequence, checkpoint, rows (role, data)
-- include: root log rows ledger queue run life missing
local channel, ep = arg(), arg()
stamp = arg()
local owner, profile, attrs = arg(), arg(), attributes()
local it = arrived()
local phase, class, attempts, aborted, wire, upstream = arg(), arg(), int(), int(), arg(), arg()
local token, fence, node, ttl, seq, checkpoint = arg(), int(), arg(), int(), int(), arg()

local function answer(code, ids, holder)
  local o, z = position()
  return {code, now, str('ep'), o, z, ids or {}, holder or ''}
end

local rec = recall('q' .. it.qid)
local mine = rec and rec.run == it.run
local active = str('run') == it.run
if str('del') == '2' or forbids(owner, profile) then return answer('ended') end
if str('del') == '1' and not active then return answer('ended') end
if call('HEXISTS', key.d, 'w' .. it.run) == 1 then return answer('ended') end
if rec and rec.s ~= 'queued' and (rec.s ~= 'active' or not mine) then return answer('ended') end
if str('run') ~= '' and not active then return answer('busy', {}, str('tok')) end
if active and str('tok') ~= token and (alive() or num('f') >= fence) then return answer('fenced') end
if active and str('tok') == token and num('as') >= seq then
  return answer('ok', missing(it.run, it.qid, num('ur')))
end

if not exists() then create(ep, owner, profile, attrs) end
if rec and rec.s == 'queued' then
  take(it.qid)
  if not mine then write('HDEL', key.d, 'r' .. rec.run) end
end
keep(it)
local ids = missing(it.run, it.qid, active and num('ur') or (mine and rec.row))
for field, value in pairs({
  run = it.run, qid = it.qid, ex = class, ph = phase, gen = generation(), att = attempts, ab = math.max(aborted, active and num('ab') or 0),
  rid = wire, up = upstream, rj = #ids, ur = ids[1] or 0, bt = now, ut = now, dq = 0, qd = 0,
  tok = token, nd = node, f = math.max(num('f'), fence), as = seq, ar = '', tk = '',
}) do set(field, value) end
lease(token, ttl)

-- No reader goes on from what it has: the log may have held other entries.
set('z', stamp .. 'x')
entry('gap', it.run, '', '')
set('kc', num('s'))
if checkpoint ~= '' then write('SET', key.k, checkpoint) else write('DEL', key.k) end

local entered = {s = 'active', run = it.run, dig = it.dig, row = ids[1]}
entered.bo, entered.bz = position()
entered.lo, entered.lz = entered.bo, entered.bz
if rec then
  save('q' .. it.qid, entered)
  write('HSET', key.d, 'r' .. it.run, it.qid)
else
  enter('q' .. it.qid, entered)
end
commit(channel)
return answer('ok', ids)

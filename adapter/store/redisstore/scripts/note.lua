-- Adds rows and entries that belong to no run.
-- keys: h t e q i d dx k l n a z
-- args: channel, stamp, owner, profile, operation id,
--       1 to create, new incarnation, source, model, provider, title, preview,
--       rows (role, data), events (name, payload)
-- include: root log trim rows ledger life
local channel = arg()
stamp = arg()
local owner, profile, op, creates, ep, attrs = arg(), arg(), arg(), int() == 1, arg(), attributes()
if forbids(owner, profile) then return {'forbidden', now} end
if exists() and str('del') == '1' then return {'deleting', now} end
if op ~= '' and call('HEXISTS', key.d, 'o' .. op) == 1 then return {'repeat', now} end
if not exists() then
  if not creates then return {'none', now} end
  create(ep, owner, profile, attrs)
end
local limit = num('s')
rows('')
notes()
set('ut', now)
if op ~= '' then enter('o' .. op, {c = 'ok'}) end
commit(channel)
if str('run') == '' then trim(limit) end
return {'ok', now}

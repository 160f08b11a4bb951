-- One view of a session, rows left out.
-- lane: none
-- keys: h e q i k l
-- include: root log ledger queue run
local view = {'ok', now, alive() and 1 or 0, record, '', {}, {}}
if not exists() then return view end
if str('run') ~= '' then
  view[5] = call('GET', key.k) or ''
  view[6] = call('XRANGE', key.e, '(' .. num('kc') .. '-0', '+')
end
for i, qid in ipairs(queue()) do view[7][i] = fields(item(qid)) end
return view

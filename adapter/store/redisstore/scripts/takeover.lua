-- Claims a busy session whose owner's lease has ended.
-- lane: none
-- keys: h t e q i d dx k l n a z
-- args: channel, stamp, token, node, ttl, known process, 1 if limited to classes, executor classes
-- include: root log rows ledger queue run
local channel = arg()
stamp = arg()
local token, node, ttl, process, limited, classes = arg(), arg(), int(), arg(), int() == 1, {}
for _, class in ipairs(strings()) do classes[class] = true end

-- taken answers the holder of the tenure.
local function taken(code)
  local rerun, checkpoint, log = 0, '', {}
  if code == 'run' then
    local same = str('gen') ~= '' and str('gen') == generation()
    if str('ph') == 'starting' and num('ab') == 0 and num('att') <= limits.attempts and same then rerun = 1 end
    checkpoint = call('GET', key.k) or ''
    log = call('XRANGE', key.e, '(' .. num('kc') .. '-0', '+')
  end
  return {code, now, 0, '', '', fields(item(str('qid'))), rerun, checkpoint, log, 1, call('HGETALL', key.h)}
end
local function refuse(code, pttl, holder, class)
  return {code, now, pttl, holder, class, {}, 0, '', {}, 0, {}}
end

if not exists() or not busy() then return refuse('idle', 0, '', '') end
if token ~= '' and str('tok') == token and str('run') ~= '' and str('tk') ~= '' then return taken(str('tk')) end
if alive() then return refuse('held', call('PTTL', key.l), str('nd'), '') end
local class = str('run') ~= '' and str('ex') or item(queue()[1]).ex
if limited and not classes[class] then return refuse('unfit', 0, '', class) end
if replaced(process) then return otherProcess() end

grant(token, node, ttl)
if str('run') == '' then
  pop()
  set('tk', 'next')
else
  set('att', num('att') + 1)
  set('tk', 'run')
end
commit(channel)
return taken(str('tk'))

-- Gives up the tenure; the run stays active.
-- keys: h t e d dx l z
-- args: channel, token, run, last acknowledged sequence, 1 if upstream is set, upstream
-- include: root log ledger run owner
local channel, token, run, seq = arg(), arg(), arg(), int()
local no = refusal(token, run)
if no then return refused(no, run) end
if num('as') < seq then return refused('back', run) end
local hasUpstream, upstream = int() == 1, arg()
if hasUpstream then set('up', upstream) end
local answer = str('ar') ~= '' and stored('ok') or reply('ok', 0, '', 0, '', 0, {}, '')
vacate()
commit(channel)
return answer

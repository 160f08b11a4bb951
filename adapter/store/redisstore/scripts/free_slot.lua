-- Gives a place, or one in the order, back.
-- keys: g gw
-- args: run
local run = arg()
call('ZREM', key.g, run)
call('ZREM', key.gw, run)
return {'ok', now}

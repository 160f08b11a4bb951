-- Arguments in order, and the store's time in Unix milliseconds.
local call = redis.call
local cursor = 0
local function arg()
  cursor = cursor + 1
  return ARGV[cursor]
end
local function int()
  return tonumber(arg()) or 0
end
local function strings()
  local list = {}
  for i = 1, int() do list[i] = arg() end
  return list
end
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- tell publishes a hint; on the shard only where there are several that can.
local function tell(channel, text)
  if type(redis.pcall(limits.publish, channel, text)) == 'table' then redis.pcall('PUBLISH', channel, text) end
end

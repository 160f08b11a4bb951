-- The root record: read as a whole, or of it what the header names, changed in memory, written by commit() as
-- the first write of the script, so that a server that is out of memory or short
-- of replicas refuses the script before anything has changed.
local root, changed, dropped, writes = {}, {}, {}, {}
local record
if wanted then
  record = call('HMGET', key.h, unpack(wanted))
  for i = 1, #wanted do root[wanted[i]] = record[i] or nil end
else
  record = call('HGETALL', key.h)
  for i = 1, #record, 2 do root[record[i]] = record[i + 1] end
end
if (tonumber(root.v) or 0) > limits.version then error('TOONEW') end

local function num(field)
  return tonumber(root[field]) or 0
end
local function str(field)
  return tostring(root[field] or '')
end
local function set(field, value)
  root[field], changed[field], dropped[field] = value, value, nil
end
local function write(...)
  writes[#writes + 1] = {...}
end

-- del: 1 = deleted when its run ends, 2 = tombstone.
local function exists()
  return str('ep') ~= '' and str('del') ~= '2'
end
local function busy()
  return str('run') ~= '' or num('ql') > 0
end
local function forbids(owner, profile)
  return exists() and (str('own') ~= owner or str('pro') ~= profile)
end
local function late(notAfter)
  return notAfter ~= 0 and now > notAfter
end

local wasBusy = busy()
local announced = false  -- the log has grown
local flags = ''
local function announce(flag)
  announced, flags = true, flags .. flag
end

-- Only a session that is not busy runs out; its root goes first, so that no
-- half of a session is ever seen.
local function lifetimes()
  if str('del') == '2' then
    for _, k in ipairs({key.h, key.d, key.dx}) do call('PEXPIREAT', k, now + limits.tombstone) end
    call('PEXPIREAT', key.e, now + limits.purged)
  elseif busy() then
    if wasBusy then return end
    for _, k in ipairs({key.h, key.t, key.e, key.d, key.dx, key.z}) do call('PERSIST', k) end
  else
    if limits.retention > 0 then
      call('PEXPIREAT', key.h, now + limits.retention)
      for _, k in ipairs({key.t, key.d, key.dx, key.z}) do call('PEXPIREAT', k, now + limits.retention + limits.margin) end
    end
    call('PEXPIREAT', key.e, now + limits.log)
  end
end

local function publish(channel)
  if announced then
    tell(channel, str('ep') .. ' ' .. str('s') .. ' ' .. str('z') .. ' ' .. flags .. ' ' .. now)
  end
end

local function commit(channel)
  local fields = {}
  for field, value in pairs(changed) do
    fields[#fields + 1] = field
    fields[#fields + 1] = value
  end
  call('HSET', key.h, unpack(fields))
  local gone = {}
  for field in pairs(dropped) do gone[#gone + 1] = field end
  if #gone > 0 then call('HDEL', key.h, unpack(gone)) end
  for _, w in ipairs(writes) do call(unpack(w)) end
  lifetimes()
  publish(channel)
end

-- The hot path of Append: plain events of the active run, and nothing else. What is
-- not as it is nearly always is left to append.lua, without effect. Written out,
-- since what the library costs is most of what such a call costs.
-- keys: h e l
-- args: channel, stamp, token, run, sequence, ttl, number of events, events (name, payload)
local stamp, token, run, seq, n = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[7])
local h = call('HMGET', key.h, 'tok', 'run', 'as', 's', 'z', 'lb', 'ab', 'mv', 'ql', 'v', 'ep', 'del')
if h[1] ~= token or h[2] ~= run or token == '' or run == '' or tonumber(h[3]) ~= seq - 1
  or tonumber(h[10]) > limits.version or h[12] == '2' then
  return {'other', now}
end
local first, prev, before, total = tonumber(h[4]), h[5], tonumber(h[6]) or 0, 0
for i = 8, 7 + 2 * n do total = total + #ARGV[i] end
local last, z = first + n, n > 0 and stamp .. (n - 1) or prev
call('HSET', key.h, 's', last, 'z', z, 'lb', before + total + 64 * n, 'as', seq,
  'ar', cmsgpack.pack({bo = first, bz = prev, lo = last, lz = z, at = now, ids = {}}))
for i = 1, n do
  local name, payload = ARGV[6 + 2 * i], ARGV[7 + 2 * i]
  local own = stamp .. (i - 1)
  before = before + 64 + #name + #payload
  call('XADD', key.e, (first + i) .. '-0', 'k', 'ev', 'z', own, 'pz', prev, 'ts', now, 'b', before, 'x', run, 'n', name, 'p', payload)
  prev = own
end
call('SET', key.l, token, 'PX', ARGV[6])
if n > 0 then tell(ARGV[1], h[11] .. ' ' .. last .. ' ' .. z .. '  ' .. now) end
return {'ok', now, first, h[5], last, z, now, tonumber(h[7]) or 0, tonumber(h[8]) or 0, tonumber(h[9]) or 0, seq, ''}

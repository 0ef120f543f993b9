-- For tests: lets the server's time pass for one record.
-- ARGV: by_ms

local by = tonumber(ARGV[1])
local r = read()
if not r then
  return {'unreadable'}
end
local left = redis.call('PTTL', key) - by
if left <= 0 then
  redis.call('DEL', key)
  return {'expired'}
end
local response = redis.call('GETRANGE', key, r.response_at, -1)
-- What counts from the claim goes by the expiry.
if r.state == IN_PROGRESS and r.lease_until ~= 0 then
  r.lease_until = math.max(1, r.lease_until - by)
end
write(r, left, response)
return {'moved'}

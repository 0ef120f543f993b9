-- Carries out an operator's decision.
-- ARGV: the fence that the operator saw, an owner that nobody is, how (complete, release, forget);
-- response and ttl_ms to complete

local expected, nobody, how, response, ttl = unpack(ARGV)
local r, bytes = read()
if r == false then
  return {'unreadable', bytes}
elseif r == nil then
  return {'gone'}
elseif digits(r.fence) ~= expected then
  return {'stale', digits(r.fence)}
end
local left = left_to_live(r)
r.owner, r.fence = nobody, r.fence + 1
if how == 'forget' then
  redis.call('DEL', key)
elseif how == 'release' then
  r.state, r.lease_until = RELEASED, 0
  write(r, left)
else
  r.state, r.lease_until, r.life = COMPLETED, now, ttl
  write(r, ttl, response)
end
return {'done'}

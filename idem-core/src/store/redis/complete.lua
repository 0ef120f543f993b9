-- Stores the outcome of an attempt.
-- ARGV: owner, response, ttl_ms; then, to restore a record that vanished: fingerprint, meta,
-- fence (0 if it is not known), attempt, lease_ms

local owner, response, ttl, fingerprint, meta, fence, attempt, lease = unpack(ARGV)
local r, bytes = read()
if r == false then
  return {'unreadable', bytes}
end
local answer = 'stored'
if r == nil then
  answer = 'restored'
  fence = tonumber(fence)
  if fence == 0 then
    fence = now_us
  end
  r = {
    owner = owner, fence = fence, attempts = attempt, lease = lease,
    fingerprint = fingerprint, meta = meta,
  }
elseif r.owner ~= owner then
  return {'superseded'}
elseif r.state == COMPLETED then
  return {'already'}
elseif r.state == RELEASED then
  return {'released'}
end
-- Of a completed record these say when it was completed, and for how long it is kept.
r.state, r.lease_until, r.life = COMPLETED, now, ttl
write(r, ttl, response)
return {answer}

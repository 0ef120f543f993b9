-- Decides a claim that met an unfinished record of the same request, or a full server.
-- ARGV: owner, fingerprint, lease_ms, life_ms, meta, whether a takeover is allowed (0/1)
--
-- It has no `allow-oom`, and no shebang either: so its answers that write nothing are given by a
-- full server too, which refuses its one write.

local owner, fingerprint, lease, life, meta, takeover = unpack(ARGV)
local r, bytes = read()
if r == false then
  return {'unreadable', bytes}
end
local fence, attempts = now_us, 1
if r then
  if r.fingerprint ~= fingerprint then
    return {'mismatch', r.state}
  end
  local left = left_to_live(r)
  if r.state == COMPLETED then
    return {'completed', redis.call('GETRANGE', key, r.response_at, -1)}
  elseif r.state == UNKNOWN then
    return {'unknown', digits(r.fence), r.attempts}
  elseif r.state == IN_PROGRESS then
    if r.owner == owner then
      return {'ours', digits(r.fence), r.attempts}
    end
    local lease_left = left_of_lease(r, left)
    if lease_left > 0 then
      return {'in_progress', digits(r.fence), r.attempts, lease_left}
    elseif takeover == '0' then
      return {'lapsed', digits(r.fence), r.attempts}
    end
  end
  fence = math.max(now_us, r.fence + 1)
  attempts = math.min(r.attempts + 1, 4294967295)
  -- When the key was claimed first stays.
  meta = string.sub(r.meta, 1, 8) .. string.sub(meta, 9)
end
write({
  state = IN_PROGRESS, owner = owner, fence = fence, attempts = attempts, lease = lease,
  life = life, lease_until = now + lease, fingerprint = fingerprint, meta = meta,
}, life)
return {'acquired', digits(fence), attempts}

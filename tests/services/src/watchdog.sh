# Runs a server in a directory of its own, and leaves nothing of either behind.
#
# Standard input is a pipe that the test holds. Each line of it is an order and gets one line of
# answer. When the pipe closes, however the test came to its end, the server is ended and its
# directory removed. What belongs to the server is told by its working directory, so the processes
# that it forked are found too, those whose parent has died are, and a stranger that was given the
# server's old process id is not.
trap '' HUP INT TERM PIPE
dir=$(mktemp -d -t idem.XXXXXX 2>/dev/null || mktemp -d /tmp/idem.XXXXXX) && cd "$dir" || exit
dir=$(pwd -P)
exec 2>>log
echo "$dir"

# For command substitutions only: it leaves the directory, so as not to find itself.
processes() {
  cd /
  exec find /proc/[0-9]*/cwd -maxdepth 0 ! -path "/proc/$$/*" \
    \( -lname "$dir" -o -lname "$dir/*" \) -printf '%h\n' 2>/dev/null
}

signal() {
  for process in $(processes); do kill -s "$1" "${process#/proc/}"; done
}

end() {
  while [ -n "$(processes)" ]; do signal KILL; sleep 0.01; done
  [ -z "$pid" ] || wait "$pid"
  pid=
}

pid=
while read -r order; do
  case $order in
    start)
      end
      (trap - HUP INT TERM PIPE; exec "$@") </dev/null >>log &
      pid=$!
      echo "$pid"
      ;;
    wait) wait "$pid"; echo "$?"; pid= ;;
    kill) end; echo done ;;
    # A server that forks is stopped after the first round; the second finds what it forked then.
    pause) signal STOP; signal STOP; echo done ;;
    resume) signal CONT; echo done ;;
  esac
done

end
# What PostgreSQL keeps outside of its directory: a System V segment, named in the seventh line.
segment=$(sed -n '7s/.* //p' data/postmaster.pid 2>/dev/null)
[ -z "$segment" ] || ipcrm -m "$segment"
cd /
until rm -rf "$dir"; do sleep 0.1; done

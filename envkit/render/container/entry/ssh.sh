#!/bin/bash
# Starts sshd as the user of the image: keys only, host keys made at the first start.
set -eu

state=${ENVKIT_SSH_STATE:-/var/lib/envkit-ssh}
keys=${ENVKIT_SSH_KEYS:-/etc/envkit/authorized_keys}

refuse() {
    printf 'envkit: %s\n' "$1" >&2
    exit 2
}

[ "$#" -eq 0 ] || refuse 'ssh.sh takes no options; the port is ENVKIT_SSH_PORT'
[ "$(id -u)" -ne 0 ] || refuse 'sshd is not started as root: nobody is to log in as root'
[ -r "$keys" ] || refuse "there is no file of public keys at $keys: mount one there"
ssh-keygen -l -f "$keys" >/dev/null 2>&1 || refuse "$keys holds no public key"

umask 077
mkdir -p "$state"
[ -O "$state" ] || refuse "$state belongs to another user"
chmod 700 "$state"
# A copy of our own: sshd does not trust a file that others may write.
cat "$keys" >"$state/authorized_keys"
if [ ! -s "$state/host_key" ]; then
    rm -f "$state/new_host_key" "$state/new_host_key.pub"
    ssh-keygen -q -t ed25519 -N '' -C '' -f "$state/new_host_key"
    mv "$state/new_host_key" "$state/host_key"
fi
printf 'envkit: sshd on port %s, host key ' "$ENVKIT_SSH_PORT"
ssh-keygen -l -f "$state/host_key"

exec /usr/sbin/sshd -D -e -f "$(dirname "$0")/sshd_config" -p "$ENVKIT_SSH_PORT" \
    -h "$state/host_key" -o "AuthorizedKeysFile=$state/authorized_keys"

#!/bin/bash
# Starts Jupyter, but never without a token.
set -eu

refuse() {
    printf 'envkit: %s\n' "$1" >&2
    exit 2
}

[ "$#" -eq 0 ] || refuse 'jupyter.sh takes no options; port and folder are ENVKIT_JUPYTER_PORT and ENVKIT_JUPYTER_FOLDER'
[ "$(id -u)" -ne 0 ] || refuse 'Jupyter is not started as root'
[ -n "${JUPYTER_TOKEN:-}" ] ||
    refuse 'JUPYTER_TOKEN is empty or not set: set it to a secret, such as the output of: openssl rand -hex 32'
[ "${#JUPYTER_TOKEN}" -ge 16 ] || refuse 'JUPYTER_TOKEN is shorter than 16 characters'
case "$JUPYTER_TOKEN" in
*[!A-Za-z0-9._~-]*) refuse 'JUPYTER_TOKEN may hold letters, digits and . _ ~ - only' ;;
esac

# What packages or a home folder configure comes first; our file after it has the last word.
exec "$CONDA_PREFIX/bin/jupyter" "$ENVKIT_JUPYTER" \
    --config "$(dirname "$0")/jupyter_server_config.py"

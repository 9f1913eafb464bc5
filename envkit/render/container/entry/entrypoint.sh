#!/bin/bash
# Activates the environment as conda would, then becomes the command.
set -eu

case "${1:-}" in
'')
    echo 'envkit: no command was given; try: bash' >&2
    exit 2
    ;;
-*)
    echo "envkit: $1 is no command; options of the command cannot be given alone" >&2
    exit 2
    ;;
esac

# Scripts of packages may ask for variables that are not set.
set +eu
for script in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do
    if [ -r "$script" ]; then
        # shellcheck source=/dev/null
        . "$script"
    fi
done
exec "$@"

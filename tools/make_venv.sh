#!/bin/sh
# Make a virtual environment with a pip that knows dependency groups: make_venv.sh FOLDER [PYTHON]
# Without PYTHON, the first of python3, python3.13 ... python3.10 that is new enough and can make one.
set -eu

folder=$1
wanted=${2:-}

new_enough() {
    "$1" -c 'import sys; raise SystemExit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

# Debian and Ubuntu ship venv without what it needs to put pip inside, until python3-venv is installed.
can_make() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

old=
bare=
chosen=
for python in ${wanted:-python3 python3.13 python3.12 python3.11 python3.10}; do
    if ! "$python" -c '' >/dev/null 2>&1; then
        continue
    elif ! new_enough "$python"; then
        old="${old:-$python}"
    elif ! can_make "$python"; then
        bare="${bare:-$python}"
    else
        chosen=$python
        break
    fi
done

if [ -z "$chosen" ]; then
    if [ -n "$bare" ]; then
        echo "$bare cannot make virtual environments (no ensurepip). On Debian and Ubuntu: apt-get install python3-venv"
    elif [ -n "$old" ]; then
        echo "$old is older than Python 3.10, which envkit needs. Name a newer one: make verify PYTHON=/path/to/python3"
    else
        echo "${wanted:-python3} was not found or does not run. Name one: make verify PYTHON=/path/to/python3"
    fi >&2
    exit 1
fi

# pip 25.1 brought --group; Debian 12 and Ubuntu 22.04 put an older pip into a new environment.
echo "venv: $folder, with $("$chosen" --version) ($chosen)"
"$chosen" -m venv --clear "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check 'pip>=25.1'

#!/bin/sh
# Build the wheel and run the tests against it alone: test_wheel.sh [PYTHON]
# The tests run from a copy of every file git would keep except the package itself, in a folder outside this
# one, so that `import envkit` can only mean the installed wheel.
set -eu
cd "$(dirname "$0")/.."

venv=.venv-wheel
unset PYTHONPATH
pip() {
    "$venv/bin/python" -m pip --disable-pip-version-check "$@"
}

tools/make_venv.sh "$venv" "${1:-}"
python=$PWD/$venv/bin/python
constraints=$PWD/tests/constraints.txt
rm -rf dist
pip wheel --quiet --no-deps --wheel-dir dist .
"$python" tools/check_wheel.py dist/*.whl
# With the extra: what it is for is tested too.
pip install --quiet --constraint "$constraints" "$(echo dist/*.whl)[lock]"
pip install --quiet --constraint "$constraints" --group test
"$python" tools/torch_for_this_machine.py

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
git ls-files -z --cached --others --exclude-standard -- . ':!envkit' | tar --create --null --files-from=- | tar --extract --directory="$tree"
cd "$tree"
echo "wheel: tests run against $("$python" -c 'import envkit; print(envkit.__file__)')"
"$python" -m pytest -n 2

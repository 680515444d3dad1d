#!/bin/sh
# Get what the tests of the report page need, where that is possible: Debian's Chromium and the
# accessibility checker axe-core. Never fails; a test that misses something is skipped and says so.
# Usage: get_browser.sh VENV
venv="$1"
if ! command -v chromium >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi
command -v chromium >/dev/null || echo "no chromium: the browser tests will be skipped"
if [ ! -f "$venv/node_modules/axe-core/axe.min.js" ] && command -v npm >/dev/null; then
  npm install --silent --no-audit --no-fund --prefix "$venv" axe-core@4.14.0
fi
[ -f "$venv/node_modules/axe-core/axe.min.js" ] || echo "no axe-core: its test will be skipped"
exit 0

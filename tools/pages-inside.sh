#!/usr/bin/env bash
# Copies the pages that "khop docs" prints to a folder. Links to files that are not among them become addresses.
set -euo pipefail
cd "$(dirname "$0")/.."
docs=$(sed -n 's/^ *"docs": "\(.*\)",$/\1/p' internal/project/project.json)
mkdir -p "$1"
cp docs/*.md "$1"
sed -i -E "s#\]\(\.\./#](${docs%docs/}#g; s#\]\(((results|start)/|[a-z-]+\.(json|svg))#](${docs}\1#g" "$1"/*.md

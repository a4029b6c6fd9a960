#!/usr/bin/env bash
# Builds the source distribution of the Python package into dist/: the package, and the sources of the program, which Go
# builds where it is installed. The same commit gives the same bytes.
#
# Environment: PYTHON  one that has setuptools 77 or later, for the metadata (default: python3)
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
version=${KHOP_RELEASE:-$(sed -n 's/^__version__ = "\(.*\)"/\1/p' integrations/python/src/khop/__init__.py)}
to=$work/khop-$version
mkdir -p dist "$to/go"
cp -r LICENSE cmd/khop/NOTICES.txt integrations/python/{pyproject.toml,setup.py,README.md} "$to"
git ls-files -z integrations/python/src | (cd "$work" && mkdir package && cd - >/dev/null && xargs -0 cp -P --parents -t "$work/package")
mv "$work/package/integrations/python/src" "$to/src"
sed -i "s/^__version__ = .*/__version__ = \"$version\"/" "$to/src/khop/__init__.py"
tools/pages-inside.sh "$to/src/khop/docs"
# What builds the program: no tests, no other modules, no pages.
git ls-files -z -- go.mod go.sum '*.go' '*.s' '*.h' '*.ptx.zip' '*.txt' '*.html' '*.json' |
    grep -zvE '(_test\.go$|/testdata/|^(bench|docs|examples|tests|tools|integrations/(python|gomlx))/)' |
    xargs -0 cp -P --parents -t "$to/go"
(cd "$work" && cp -r "$to" metadata && rm -rf metadata/go && cd metadata && "$python" setup.py --quiet egg_info --egg-base "$work" >/dev/null)
cp "$work/khop.egg-info/PKG-INFO" "$to"
chmod -R u=rwX,go=rX "$to"
tar --create --directory="$work" --sort=name --mtime="@${SOURCE_DATE_EPOCH:-315532800}" --owner=0 --group=0 --numeric-owner \
    --format=pax --pax-option=delete=atime,delete=ctime "khop-$version" | gzip -n9 >"dist/khop-$version.tar.gz"
ls -l "dist/khop-$version.tar.gz"

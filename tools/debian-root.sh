#!/usr/bin/env bash
# Unpacks packages of a release of Debian, and what they depend on, into a folder: a file system to chroot into. Runs
# none of their scripts, and installs nothing here.
# Usage: tools/debian-root.sh SUITE FOLDER PACKAGE..    needs apt-get and dpkg-deb
set -euo pipefail
suite=$1
root=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{state/lists/partial,cache/archives/partial} "$root"/usr/{bin,lib,lib64,sbin} "$root"/{dev,proc,tmp,etc/ssl/certs}
: >"$work/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" >"$work/sources"
cat >"$work/apt.conf" <<A
Dir::Etc::sourcelist "$work/sources";
Dir::Etc::sourceparts "/dev/null";
Dir::State "$work/state";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
A
export APT_CONFIG=$work/apt.conf
apt-get update -qq
apt-get install -qq -y --download-only "$@" >/dev/null
for folder in bin lib lib64 sbin; do
    [ -e "$root/$folder" ] || ln -s "usr/$folder" "$root/$folder"
done
for package in "$work"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar x -C "$root" --keep-directory-symlink --no-same-owner
done
! compgen -G "$root/usr/share/ca-certificates/mozilla/*.crt" >/dev/null ||
    cat "$root"/usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"

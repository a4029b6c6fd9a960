#!/bin/sh
# features.sh GB DIR [KHOP]: converts so many gigabytes of features, all 0, and says the most memory that it takes.
#
# The features are a sparse file, and the dataset goes to btrfs with compression in a sparse image in DIR, where zeros
# take no room. strace makes fallocate fail, since btrfs does not compress what is reserved. Needs root, btrfs-progs and
# strace.
set -eu
gb=$1 dir=$2/features khop=${3:-./khop}
mkdir -p "$dir/mount"
trap 'umount "$dir/mount" 2>/dev/null; rm -rf "$dir"' EXIT
truncate -s "$((gb + gb / 10 + 2))G" "$dir/image"
mkfs.btrfs -q "$dir/image" 2>/dev/null
mount -o loop,compress-force=zstd:1,discard "$dir/image" "$dir/mount"
rows=$((gb * 1000000000 / 1024))
python3 - "$dir" $rows <<'PY'
import random, sys
folder, rows = sys.argv[1], int(sys.argv[2])
head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 256), }}"
with open(folder + "/x.npy", "wb") as f:
    f.write(b"\x93NUMPY\x01\x00\x76\x00" + head.ljust(117).encode() + b"\n")
    f.truncate(128 + rows * 1024)
r = random.Random(1)
with open(folder + "/edges.txt", "w") as f:
    f.writelines(f"{r.randrange(rows)} {r.randrange(rows)}\n" for _ in range(100_000))
PY
begin=$(date +%s)
strace -f --seccomp-bpf -qq -o /dev/null -e trace=fallocate -e inject=fallocate:error=EOPNOTSUPP \
	"$khop" convert "$dir/edges.txt" "$dir/mount/x.khop" --features "$dir/x.npy" --max-memory 128MiB >"$dir/said" 2>&1 &
tracer=$!
most=0 last=0
while kill -0 $tracer 2>/dev/null; do
	for pid in $(pgrep -P $tracer); do
		now=$(awk '/^Rss(Anon|Shmem)/ { n += $2 } END { print n + 0 }' /proc/"$pid"/status 2>/dev/null || echo 0)
		[ "${now:-0}" -gt $most ] && most=$now
	done
	written=$(du -s --apparent-size -B1000000000 "$dir/mount" 2>/dev/null | cut -f1)
	if [ "${written:-0}" -ge $((last + (gb + 9) / 10)) ]; then
		last=$written
		echo "$written GB written: at most $most KiB of anonymous and shared memory, $(($(date +%s) - begin)) s"
	fi
	sleep 0.5
done
wait $tracer || { cat "$dir/said"; exit 1; }
du -s --apparent-size -B1000000 "$dir/mount/x.khop" | awk '{ print $1 / 1000 " GB of dataset" }'
du -s -B1000000 "$dir/image" | awk '{ print $1 / 1000 " GB of disk" }'
echo "at most $most KiB of anonymous and shared memory, $(($(date +%s) - begin)) s"

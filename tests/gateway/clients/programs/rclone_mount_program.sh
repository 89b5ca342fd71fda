# rclone mount: programs that know only files, below a place, BUCKET or BUCKET/PREFIX. Needs `rclone` and `fusermount3` in PATH.
set -euo pipefail
place=graveler:$1/rclone_mount
work=$(mktemp -d)
folder=$work/mounted
mkdir "$folder"
trap 'mountpoint -q "$folder" && fusermount3 -u -z "$folder"; rm -rf "$work"' EXIT
mounted() {
    rclone mount --cache-dir "$work/cache" "$@" "$place" "$folder" &
    for _ in $(seq 300); do
        mountpoint -q "$folder" && return
        sleep 0.1
    done
    echo "not mounted after 30 s"
    exit 1
}
unmounted() {
    fusermount3 -u "$folder"
    wait
}
head -c 9000000 /dev/urandom > "$work/large"

# As it is, a mount streams a file to S3 while it is written, and has sent it when it is closed.
mounted --s3-chunk-size 5Mi
cp "$work/large" "$folder/large"
mkdir -p "$folder/tree/deep"
echo one > "$folder/tree/deep/one é"
mv "$folder/tree/deep/one é" "$folder/moved"
echo two > "$folder/tree/removed"
rm "$folder/tree/removed"
unmounted

# With a cache, programs write anywhere in a file; it is sent after it is closed.
mounted --vfs-cache-mode writes --vfs-write-back 0s --s3-upload-cutoff 6Mi --s3-chunk-size 5Mi
for file in "$folder/large" "$work/large"; do
    printf changed | dd of="$file" bs=1 seek=5000000 conv=notrunc status=none
done
for _ in $(seq 100); do
    rclone cat "$place/large" | cmp --silent - "$work/large" && break
    sleep 0.3
done
unmounted

mounted --read-only
cmp "$work/large" "$folder/large"
test "$(cat "$folder/moved")" = one
test "$(cd "$folder" && find . -type f | sort | tr '\n' ,)" = ./large,./moved,
unmounted

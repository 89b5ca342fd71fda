# rclone: copy, sync, check, cat, lists and deletions below a place, BUCKET or BUCKET/PREFIX. Needs `rclone` in PATH.
set -euo pipefail
place=graveler:$1/rclone
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/deep"
head -c 9000000 /dev/urandom > "$work/tree/large"
echo one > "$work/tree/deep/one"
echo two > "$work/tree/deep/two é + %2F"

rclone copy --s3-upload-cutoff 6Mi --s3-chunk-size 5Mi "$work/tree" "$place/tree"
rclone check --download "$work/tree" "$place/tree"
rm "$work/tree/deep/one"
echo more > "$work/tree/more"
rclone sync "$work/tree" "$place/tree"
rclone check "$work/tree" "$place/tree"
test "$(rclone sync --stats-one-line --stats-log-level NOTICE -v "$work/tree" "$place/tree" 2>&1 | grep -c Copied)" = 0
test "$(rclone cat "$place/tree/more")" = more
rclone copyto "$place/tree/more" "$place/copied"
rclone moveto "$place/tree/more" "$place/moved"
test "$(rclone lsf -R --files-only "$place/tree" | sort | tr '\n' ,)" = "deep/two é + %2F,large,"
echo piped | rclone rcat "$place/piped"
rclone purge "$place/tree/deep"

# s5cmd: cp, sync, cat, mv, ls, du and rm below a place, BUCKET or BUCKET/PREFIX. Needs `s5cmd` in PATH.
set -euo pipefail
place=s3://$1/s5cmd
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/deep"
head -c 60000000 /dev/zero > "$work/tree/large"
echo one > "$work/tree/deep/one"
echo two > "$work/tree/deep/two é +"
find "$work/tree" -type f -exec touch -d "1 minute ago" {} +   # s5cmd compares nanoseconds with S3's seconds

s5cmd sync "$work/tree/" "$place/tree/"
test -z "$(s5cmd sync "$work/tree/" "$place/tree/")"
s5cmd cp "$place/tree/*" "$work/back/"
diff -r "$work/tree" "$work/back"
test "$(s5cmd cat "$place/tree/deep/one")" = one
s5cmd cp "$place/tree/large" "$place/copied"
s5cmd mv "$place/tree/deep/one" "$place/moved"
s5cmd ls "$place/tree/*" > "$work/keys"
grep -q "two é +" "$work/keys"
s5cmd du "$place/*" > /dev/null
s5cmd rm "$place/tree/*"
test -z "$(s5cmd ls "$place/tree/*" 2>/dev/null)"

# The AWS CLI: cp, sync twice, ls, mv, rm and presign below a place, BUCKET or BUCKET/PREFIX. Needs `aws` and `python` in PATH.
set -euo pipefail
place=s3://$1/awscli
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/deep"
head -c 9000000 /dev/urandom > "$work/tree/large"
echo one > "$work/tree/deep/one"
echo two > "$work/tree/deep/two é +"

aws s3 sync --only-show-errors "$work/tree" "$place/tree"
second=$(aws s3 sync "$work/tree" "$place/tree")
test -z "$second" || { echo "the second sync sent: $second"; exit 1; }
aws s3 sync --only-show-errors "$place/tree" "$work/back"
diff -r "$work/tree" "$work/back"
aws s3 ls --recursive "$place/tree/" > "$work/keys"
grep -q "two é +" "$work/keys"
test "$(aws s3 ls "$place/" | tr -d ' ')" = PREtree/
aws s3 cp --only-show-errors "$place/tree/large" "$place/copied"
aws s3 mv --only-show-errors "$place/tree/deep/one" "$place/moved"
test "$(aws s3 cp "$place/moved" -)" = one
echo piped | aws s3 cp - "$place/piped"
python -c 'import sys, urllib.request; assert urllib.request.urlopen(sys.argv[1]).read() == b"piped\n"' \
    "$(aws s3 presign "$place/piped")"
aws s3 rm --only-show-errors --recursive "$place/tree/deep"
test -z "$(aws s3 ls "$place/tree/deep/" || true)"

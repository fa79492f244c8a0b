# SPDX-License-Identifier: GPL-2.0
#
# Makes an assertion of each struct of a description, and of each of its fields.

function align(offset, to) { return int((offset + to - 1) / to) * to }

# Bytes of a type; its alignment is in aligned.
function bytes_of(type,    n, base)
{
	if (match(type, /^array\[.*, [0-9]+\]$/)) {
		n = type
		sub(/.*, /, "", n)
		base = substr(type, 7)
		sub(/, [0-9]+\]$/, "", base)
		return bytes_of(base) * (n + 0)
	}
	if (type ~ /^(ptr64|vma64)/)
		return aligned = 8
	if (match(type, /int(8|16|32|64)/)) {
		n = substr(type, RSTART + 3, RLENGTH - 3)
		return aligned = n / 8
	}
	if (type in resource)
		return bytes_of(resource[type])
	if (type in size) {
		aligned = alignment[type]
		return size[type]
	}
	print "#error unknown type " type
	return aligned = 1
}

BEGIN { resource["fd"] = "int32"; resource["ID"] = "int32" }
/^#/ { next }
/^resource / {
	split($2, part, /[][]/)
	resource[part[1]] = part[2]
}
/^(type )?[a-z_]+(\[ID\])? \{$/ {
	name = $1 == "type" ? $2 : $1
	sub(/\[ID\]/, "", name)
	offset = 0
	widest = 1
	next
}
name && /^}/ {
	size[name] = align(offset, widest)
	alignment[name] = widest
	if (offset != size[name])
		print "#error " name " has padding: a field is missing"
	printf "_Static_assert(sizeof(struct %s) == %d, \"%s\");\n", name, size[name], name
	name = ""
}
name {
	split($0, part, /\t+/)
	n = bytes_of(part[3])
	offset = align(offset, aligned)
	printf "_Static_assert(offsetof(struct %s, %s) == %d, \"%s\");\n", name, part[2], offset, name "." part[2]
	printf "_Static_assert(sizeof(((struct %s *)0)->%s) == %d, \"%s\");\n", name, part[2], n, name "." part[2]
	offset += n
	if (aligned > widest)
		widest = aligned
}

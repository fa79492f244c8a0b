# SPDX-License-Identifier: GPL-2.0
#
# Prints an assertion for each struct of a description, and for each of its fields. A descriptor has
# a struct for each kind, which ends with one for its second line. Images, and structs that contain
# them, are not in uapi/.

function align(offset, to) { return int((offset + to - 1) / to) * to }

# The size of a type, with its alignment in aligned; of an array the smallest size.
function bytes_of(type,    n, base)
{
	if (match(type, /^array\[.*, [0-9]+(:[0-9]+)?\]$/)) {
		n = type
		sub(/.*, /, "", n)
		base = substr(type, 7)
		sub(/, [0-9:]+\]$/, "", base)
		return bytes_of(base) * (n + 0)
	}
	if (type ~ /^(ptr|ptr64|vma64|intptr)(\[|$)/ || type ~ /, intptr\]$/)
		return aligned = 8
	if (match(type, /int(8|16|32|64)/)) {
		n = substr(type, RSTART + 3, RLENGTH - 3)
		return aligned = n / 8
	}
	if (match(type, /\[[a-z_]+\]$/)) {
		base = substr(type, 1, RSTART - 1)
		n = substr(type, RSTART + 1, RLENGTH - 2)
		if (bytes_of(n) != bytes_of(parameter[base]))
			print "#error " type ": another size than " parameter[base]
		type = base
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

# The field's name in C, or nothing; the bytes before it in C are in skipped.
function c_name(name)
{
	skipped = 0
	if (name ~ /_image$/ || name ~ /^treadle_(part|place)$/)
		return ""
	if (name ~ /^treadle_desc_second/)
		skipped = 64
	return name == "treadle_slot" ? "union treadle_slot" : "struct " (name ~ /^treadle_desc_/ ? "treadle_desc" : name)
}

function same_size(of, bytes, what) { printf "_Static_assert(sizeof(%s) == %d, \"%s\");\n", of, bytes, what }

# The offset of slots in a map, and the size of a field that replaces another one.
function image()
{
	if (name == "treadle_ring_image")
		printf "_Static_assert(TREADLE_SLOTS_OFFSET == %d, \"%s\");\n", at["slots"], name
	if (name == "treadle_cntr_image")
		same_size("((struct treadle_desc *)0)->peer", size[name], name)
}

# The last line of a struct. The size of a union is that of its longest field.
function finish()
{
	size[name] = align(offset, widest)
	alignment[name] = widest
	if (offset != size[name])
		print "#error " name " has padding: a field is missing"
	if (c)
		same_size(c, skipped + size[name], name)
	else
		image()
	name = ""
}

function field(what, n)
{
	if (choice) {
		if (n > offset)
			offset = n
	} else {
		offset = align(offset, aligned)
		at[what] = offset
		if (c && what != "ext") {
			printf "_Static_assert(offsetof(%s, %s) == %d, \"%s\");\n", c, what, skipped + offset, name "." what
			same_size("((" c " *)0)->" what, n, name "." what)
		}
		offset += n
	}
	if (aligned > widest)
		widest = aligned
}

BEGIN {
	resource["fd"] = resource["ID"] = "int32"
	resource["OFFSET"] = "int64"
	resource["AT"] = resource["IMAGE"] = "intptr"
}
/^#/ { next }
/^resource / {
	split($2, part, /[][]/)
	resource[part[1]] = part[2]
}
/^(type )?[a-z_]+(\[[A-Z]+\])? [{[]$/ {
	name = $1 == "type" ? $2 : $1
	if (split(name, part, /[][]/) > 1)
		parameter[name = part[1]] = part[2]
	c = c_name(name)
	choice = $NF == "["
	offset = 0
	widest = 1
	next
}
name && /^[]}]/ { finish() }
name {
	split($0, part, /\t+/)
	field(part[2], bytes_of(part[3]))
}

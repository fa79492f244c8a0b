# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Completion of treadlectl for bash. The tool's own --help has the verbs and their options.

_treadlectl() {
	local word=${COMP_WORDS[COMP_CWORD]} words
	if [ "$COMP_CWORD" = 1 ]; then
		words="$(treadlectl --help | sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p') --help --version"
	elif [[ $word == -* ]]; then
		words=$(treadlectl "${COMP_WORDS[1]}" --help 2>/dev/null |
			sed -n 's/^  ....\(--[a-z]\{1,\}\).*/\1/p')
	else
		case ${COMP_WORDS[1]} in
		list) words='contexts endpoints regions windows lanes' ;;
		explain | stat | trace) words=$(cd /proc && echo [0-9]*) ;;
		esac
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _treadlectl treadlectl

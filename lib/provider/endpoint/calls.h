// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_CALLS_H
#define TREADLE_PROVIDER_CALLS_H

namespace treadle::fi
{

/* How the calls for one direction behave. */
enum class Calls {
	absent,	    /* no capability for this direction */
	disabled,   /* fi_enable was not called yet */
	unreported, /* enabled without a completion queue or a counter for it */
	plain,
	special, /* FI_TRIGGER or FI_MULTI_RECV is a default flag, or the ring is shared */
};

} // namespace treadle::fi

#endif

/* ops/special.h -- rare functions that tapes call an element at a time (special.def). */
#ifndef RUSH_OPS_SPECIAL_H
#define RUSH_OPS_SPECIAL_H

#endif

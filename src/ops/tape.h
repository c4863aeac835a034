/* ops/tape.h -- vector programs of pointwise formulas. */
#ifndef RUSH_OPS_TAPE_H
#define RUSH_OPS_TAPE_H

#endif

"""The worst case of a call: what it may use at most."""

from lillux.values import dataclass
from ryeos.agent.prices import Price, ReportedUsage, dollars, input_of, is_believable
from ryeos.agent.purse import (
    BYTES_OF_TOKEN,
    IMAGE_TOKENS,
    MIN_OUTPUT,
    OVERHEAD,
    Purse,
    Worst,
    limit_error,
)
from ryeos.items.errors import RyeError


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCall:
    """The facts of a call before it is made.

    last           what the provider reported for the last turn; None before the first
    new_bytes      the bytes that are new since then, without those of pictures
    request_bytes  the bytes of the whole request, without those of pictures
    new_pictures   pictures that are new since then
    pictures       all pictures of the request
    max_output     the most tokens that the model, and the request, let an answer have
    """

    last: ReportedUsage | None = None
    new_bytes: int
    request_bytes: int
    new_pictures: int = 0
    pictures: int = 0
    max_output: int

    def worst_input(self, overhead: int, image_tokens: int) -> int:
        """The most tokens that the request can be: a token is at least one byte."""
        if self.last is None or not is_believable(self.last):
            return self.request_bytes + self.pictures * image_tokens + overhead
        known = input_of(self.last) + (self.last.output_tokens or 0)
        return known + self.new_bytes + self.new_pictures * image_tokens + overhead

    def likely_input(self, image_tokens: int) -> int:
        """About how many tokens the request is: what a window of the model is compared with."""
        if self.last is None or not is_believable(self.last):
            return self.request_bytes // BYTES_OF_TOKEN + self.pictures * image_tokens
        known = input_of(self.last) + (self.last.output_tokens or 0)
        return known + self.new_bytes // BYTES_OF_TOKEN + self.new_pictures * image_tokens


def worst_case(
    purse: Purse,
    call: NextCall,
    price: Price,
    *,
    daily_left: int | None = None,
    min_output: int = MIN_OUTPUT,
    overhead: int = OVERHEAD,
    image_tokens: int = IMAGE_TOKENS,
) -> Worst:
    """The most that a call can use, its output lowered to what the purse still covers.

    ``daily_left`` are the nano-dollars that the user has left for today. Raises RyeError
    ``LIMIT_...`` where less than ``min_output`` tokens could be answered.
    """
    sent = call.worst_input(overhead, image_tokens)
    least = min(min_output, call.max_output)
    room: dict[str, int | None] = {
        "tokens": purse.left_of("tokens") - sent,
        "input_tokens": least if sent <= purse.left_of("input_tokens") else -1,
        "output_tokens": purse.left_of("output_tokens"),
        "spend": price.affordable_output(purse.left_of("spend"), sent),
    }
    wanted = {
        "input_tokens": sent,
        "tokens": sent + least,
        "output_tokens": least,
        "spend": price.dearest(sent, least),
    }
    output = call.max_output
    for name, tokens in room.items():
        if tokens is not None and tokens < least:
            raise purse.limit_error(name, wanted[name])
        if tokens is not None and name != "input_tokens":
            output = min(output, tokens)
    if daily_left is not None:
        paid = price.affordable_output(daily_left, sent)
        if paid is not None and paid < least:
            raise daily_error(wanted["spend"], daily_left)
        output = output if paid is None else min(output, paid)
    return Worst(sent, output, price)


def daily_error(wanted: int, left: int) -> RyeError:
    """The error of a call that the money of the day does not cover."""
    return limit_error("daily", f"{dollars(wanted)} dollars needed, {dollars(left)} left for today")

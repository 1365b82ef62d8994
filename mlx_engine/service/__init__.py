"""The engine's thread: functions and answers for many callers, answers in passes that all share."""

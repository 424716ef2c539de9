"""The Level Zero driver; no other package uses `ze_command_list_handle_t` and the like."""
